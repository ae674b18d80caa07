# Prints "package percentage" from a coverage profile of several test binaries.
# A line is "file:from,to statements runs"; the same block comes once from each
# binary and counts as covered if any of them ran it.
/^mode:/ { next }
{
	size[$1] = $2
	if ($3 > 0)
		covered[$1] = 1
}
END {
	for (block in size) {
		package = block
		sub(/\/[^\/]*$/, "", package)
		all[package] += size[block]
		if (block in covered)
			run[package] += size[block]
	}
	for (package in all)
		printf "%-32s %5.1f%%\n", package, 100 * run[package] / all[package]
}
