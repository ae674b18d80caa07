#!/bin/sh
# A complete transport agent, for a clause with marking=scheduler:
#
#	archive/*	marking=scheduler command="/path/agent.sh $channel /path/file"
#
# It appends every message to a file. ta(7) describes the protocol.
channel=$1 file=$2 only=$3 # the host, where the command has $host at its end
export LC_ALL=C # offsets count bytes

# recipients CONTROLFILE HOST: a line "offset body-offset user" for each open
# recipient, or "none".
recipients() {
	awk -v channel="$channel" -v host="$2" '
		{ at = next_at; next_at += length($0) + 1 }
		block { block = $0 != ""; next }
		/^[mM]$/ { block = 1 }
		/^o / { body = $2 }
		/^r / && $2 "" == channel && (host == "" || tolower($3) == host) {
			sub(/^r +[^ ]+ [^ ]+ /, ""); sub(/ [^ ]*$/, "")
			print at, body, $0; found = 1
		}
		END { if (!found) print "none" }' "$1" || echo none
}

# deliver CONTROLFILE OFFSET BODY-OFFSET: the header block that follows the
# recipient, an empty line, the body.
deliver() {
	[ -r "../queue/$1" ] || return
	tail -c "+$(($2 + 1))" "$1" | sed -n '/^m$/,/^$/{/^m$/!p;}; /^$/q' &&
		tail -c "+$(($3 + 1))" "../queue/$1"
}

echo '#hungry'
while IFS='	' read -r path host rest && [ -n "$path" ]; do
	[ "$path" = '#idle' ] || recipients "$path" "${host:-$only}" | while read -r at body user; do
		if [ "$at" = none ]; then
			echo "#resync $path"
		elif deliver "$path" "$at" "$body" >>"$file"; then
			printf '%s/%d\t%s\001relayed\0012.0.0\001\001\tok archived\n' "${path##*/}" "$at" "$user"
		else
			printf '%s/%d\t%s\001delayed\0014.3.0\001\001\tdeferred cannot archive\n' "${path##*/}" "$at" "$user"
		fi
	done
	echo '#hungry'
done
