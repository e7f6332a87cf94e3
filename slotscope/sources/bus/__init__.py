"""Pipeline of captures: from files to rows of views.

1. Files: `files` finds captures, names their points and measures each point's clock offset.
2. Packets: `point_series` reads files in threads (`cluster_core.kernels.bus.containers`) and merges them by corrected time.
3. Messages: `cluster_core.kernels.bus.decoder` follows TCP directions and cuts messages; `streams` decides who opened a
   connection by its SYN, `messages` by the bus port in the header where no SYN was captured.
4. By observer: `sightings` orders the evidence of a batch, `cluster_core.replay.dispatch` finds the processes at both ends;
   `cluster_core.kernels.bus.known_links` skips messages that change nothing but clocks and sums.
5. Evidence: `blobs` packs it per process; `evidence` is the task that runs steps 1 to 5.
6. Replay: `observers` runs one `cluster_core.replay.observer` a process, in the same task or in others.  The
   gossip machine in it derives the node's view at each moment; the node's own messages correct it.
"""
