"""Where each face lives."""

from django.contrib import admin
from django.urls import include, path

admin.site.site_header = "CHP staff"
admin.site.site_title = "CHP staff"
admin.site.index_title = "What there is"

urlpatterns = [
    path("", include("panel.urls")),
    path("api/v1/", include("api.urls")),
    path("admin/", admin.site.urls),
]
