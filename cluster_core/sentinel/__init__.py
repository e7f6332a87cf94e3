"""Sentinel: who watches a master and its replicas, agrees that it is down, elects a leader and fails over."""
