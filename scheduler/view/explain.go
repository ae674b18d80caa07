package view

// EXPLAIN: how the mail for a destination is treated, and what it waits for.

import "time"

// Explanation says how the mail for a channel and host is treated and what it waits for. It can
// be made for any channel and host, even without mail.
type Explanation struct {
	Name
	Thread *Thread `json:"thread,omitempty"` // nil: there is no mail
	// Wait is why mail is not fed now, and Until when that ends by itself; zero: it does not, or
	// the time is not known.
	Wait    Wait      `json:"wait,omitempty"`
	Until   time.Time `json:"until,omitzero"`
	Hold    *Hold     `json:"hold,omitempty"` // of the thread; nil: it is not held
	Limits  []Limit   `json:"limits"`
	Clauses []Clause  `json:"clauses"` // that match, in order
	// Settings are those in force that clauses make, in the order in which they first name them.
	Settings []Setting `json:"settings"`
}

// Limit is one of the limits on a thread and how much of it is used.
type Limit struct {
	// Name is maxta, maxchannel, maxring, maxthr, window, clustermax, sitemax,
	// clustersitemax, or sharescale for each share that mail of the thread waits with.
	Name   string `json:"name"`
	Share  string `json:"share,omitempty"` // of sharescale: the source, sender or domain
	Used   int    `json:"used"`            // processes for maxta, busy sessions for the others
	Most   int    `json:"most"`            // 0: no limit, except in clustermax and clustersitemax, which are there only with mail
	Blocks bool   `json:"blocks"`          // mail waits for it
	// Agents are the processes that count for maxchannel and maxring as well, idle ones
	// included.
	Agents int `json:"agents,omitempty"`
}

// Clause is a clause of scheduler.cf.
type Clause struct {
	Pattern string `json:"pattern"`
	File    string `json:"file"`
	Line    int    `json:"line"`
}

// Setting is a parameter and the place where it is set.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	File  string `json:"file"`
	Line  int    `json:"line"`
}

// Wait is why due mail of a thread is not fed now.
type Wait string

const (
	NoWait       Wait = ""               // nothing is due, or it is being fed
	WaitTA       Wait = "maxta"          // the limit on processes
	WaitChannel  Wait = "maxchannel"     // the limit of the channel
	WaitRing     Wait = "maxring"        // the limit of the ring
	WaitThread   Wait = "maxthr"         // the limit of the thread
	WaitWindow   Wait = "window"         // it is below maxthr: reduced by failures, or not grown yet
	WaitProbe    Wait = "probe"          // one session tries a dead destination
	WaitMessage  Wait = "msgsessions"    // the message has as many sessions as it may have
	WaitShare    Wait = "sharescale"     // the share has as many sessions as it may have
	WaitFrozen   Wait = "frozen"         // option -F
	WaitForks    Wait = "fork rate"      // option -R
	WaitCommand  Wait = "no command"     // no clause gives one
	WaitStart    Wait = "agents fail"    // they cannot be started, or die at once
	WaitHeld     Wait = "held"           // HeldThread, or all mail of the thread is held
	WaitTrigger  Wait = "queueonly"      // an ETRN is needed
	WaitSpool    Wait = "spool down"     // it cannot be written
	WaitSuspend  Wait = "suspended"      // the destination has failed
	WaitSelect   Wait = "not selected"   // option -p
	WaitStopping Wait = "stopping"       // the scheduler stops
	WaitAgent    Wait = "agent expected" // one is starting, or will be free

	WaitRule        Wait = "reply rule"     // suspended by one
	WaitRate        Wait = "rate"           // the thread has no token
	WaitSite        Wait = "sitemax"        // its site has as many sessions as it may have
	WaitSiteRate    Wait = "siterate"       // its site has no token
	WaitChannelRate Wait = "channelrate"    // the channel has no token
	WaitClusterMax  Wait = "clustermax"     // this node's share of it is used
	WaitClusterSite Wait = "clustersitemax" // this node's share of the site's limit is used
	WaitClusterRate Wait = "clusterrate"    // this node's part of it has no token

	WaitRetry Wait = "retry" // of an Explanation: no mail is due yet
)
