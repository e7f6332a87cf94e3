#!/bin/sh
# Ship the log of one server into a landing, beside the server:
#
#     slotscope-ship-log.sh /logs/server.log LANDING/CLUSTER/POINT/logs IP_PORT [SECONDS]
#
# Redis and Valkey open their log for each line, so renaming it loses no line.  A kill between the last two commands repeats a part.
set -u
log=$1 folder=$2 node=$3 every=${4:-30}
now() { date -u +%Y%m%dT%H%M%S.000000Z; }

umask 027
mkdir -p "$folder" || exit 1
from=$(now)
while sleep "$every"; do
	[ -e "$log.part" ] || mv "$log" "$log.part" 2>/dev/null || continue
	sleep 1 # a line that is being written
	to=$(now)
	name=$node-${from}_$to.log.gz
	gzip -c "$log.part" >"$folder/.$name.partial" && mv "$folder/.$name.partial" "$folder/$name" && rm "$log.part" && from=$to
done
