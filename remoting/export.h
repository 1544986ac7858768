// Visibility of the entry points that the look-alike libraries export.
#pragma once

#define API extern "C" __attribute__((visibility("default")))
