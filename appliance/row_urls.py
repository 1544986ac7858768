"""Routes whose answers depend on nothing but rows, which nodes were heard, and GPUs' newest readings: the lister's process gives them.

It loads nothing but what these need.
"""

from __future__ import annotations

from django.urls import path

from appliance.inventory import views as inventory

handler404 = "appliance.urls.not_found"
handler500 = "appliance.urls.server_error"

urlpatterns = [
    path("api/v1/nodes", inventory.NodeListView.as_view()),
    path("api/v1/gpus", inventory.GpuListView.as_view()),
]
