import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

import appliance.db.identifiers


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='NotificationCursor',
            fields=[
                ('id', models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ('event_id', models.UUIDField()),
            ],
        ),
        migrations.CreateModel(
            name='NotificationChoice',
            fields=[
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('unwanted', models.JSONField(default=list)),
            ],
        ),
        migrations.CreateModel(
            name='Notification',
            fields=[
                ('id', models.UUIDField(default=appliance.db.identifiers.uuid7, editable=False, primary_key=True, serialize=False)),
                ('allocation_id', models.UUIDField()),
                ('kind', models.CharField(choices=[('start', 'Start'), ('lifetime', 'Lifetime'), ('reclaim', 'Reclaim')], max_length=20)),
                ('subject', models.CharField(max_length=200)),
                ('text', models.TextField()),
                ('attempts', models.PositiveSmallIntegerField(default=0)),
                ('next_attempt_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('error', models.CharField(blank=True, max_length=300)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('sent_at', models.DateTimeField(null=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='notifications', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('sent_at__isnull', True)), fields=['next_attempt_at'], name='notification_pending')],
                'constraints': [models.UniqueConstraint(fields=('allocation_id', 'kind'), name='notification_once')],
            },
        ),
    ]
