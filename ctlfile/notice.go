package ctlfile

// Notices in postman/: their names.

// NoticeSuffix ends the names of notices in postman/ that nobody got, because the sender of the
// message is null. ZMailer's scheduler gives them the same names. An administrator reads and
// removes them.
const NoticeSuffix = ":error-on-error"
