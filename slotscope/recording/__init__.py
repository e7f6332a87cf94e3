"""The flight recorder of one host: bus, polls and logs of its nodes as finished files in a landing (`cluster_core.formats.landing`)."""
