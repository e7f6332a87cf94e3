"""Recorder of one host: bus, polls and logs as finished files in a landing (`cluster_core.formats.landing`)."""
