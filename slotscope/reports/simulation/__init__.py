"""The report on simulated runs: values, terminal, page."""
