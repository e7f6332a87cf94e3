"""Recorder of one host: bus and polls as finished files in a landing (`cluster_core.formats.landing`)."""
