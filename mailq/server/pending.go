package server

// What mail waits for, in the words of ZMailer's reports.

import "zsched/scheduler/view"

// The words that make a difference in reports.
const (
	pendingTA      = ">MaxTA"
	pendingChannel = ">MaxChannel"
	pendingRing    = ">MaxRing"
	pendingThread  = ">MaxThr"
	pendingHeld    = "Held"
)

// pending has the words for what due mail waits for, those of ZMailer where it had one. What is not
// here has none: it waits for a time, or for an agent that will come.
var pending = map[view.Wait]string{
	view.WaitTA: pendingTA, view.WaitChannel: pendingChannel, view.WaitRing: pendingRing, view.WaitThread: pendingThread,
	view.WaitWindow: pendingThread, view.WaitProbe: pendingThread, view.WaitMessage: pendingThread, view.WaitShare: pendingThread,
	view.WaitClusterMax: pendingThread, view.WaitClusterRate: pendingThread,
	view.WaitFrozen: "Frozen", view.WaitSelect: "Frozen", view.WaitStopping: "Frozen",
	view.WaitForks:   "ForkRateLimit",
	view.WaitCommand: "ConfBUG:NoCmdDefined!",
	view.WaitStart:   "System:ForkFailure!",
	view.WaitHeld:    pendingHeld,
	view.WaitTrigger: "QueueOnly",
	view.WaitSpool:   "SpoolDown",
	view.WaitRule:    "ReplyRule",
	view.WaitRate:    "Rate",
	view.WaitSite:    "SiteMax", view.WaitClusterSite: "SiteMax",
	view.WaitSiteRate:    "SiteRate",
	view.WaitChannelRate: "ChannelRate",
}
