package scheduler

import "zsched/scheduler/rule"

// The configuration of the core, as package rule has it, under the names that the programs
// around the core use.

type (
	Config    = rule.Config
	Selection = rule.Selection
	Clause    = rule.Clause
	Setting   = rule.Setting
	Params    = rule.Params
	Backoff   = rule.Backoff
	Rate      = rule.Rate
	Feedback  = rule.Feedback
	Per       = rule.Per
	ReplyRule = rule.ReplyRule
	ReplyVerb = rule.ReplyVerb
	ReplyKey  = rule.ReplyKey
)

const (
	NobodyGID = rule.NobodyGID

	BackoffAge = rule.BackoffAge

	PerOne  = rule.PerOne
	PerN    = rule.PerN
	PerSqrt = rule.PerSqrt

	ReplySuspend  = rule.ReplySuspend
	ReplySlow     = rule.ReplySlow
	ReplyRate     = rule.ReplyRate
	ReplyDefer    = rule.ReplyDefer
	ReplyFail     = rule.ReplyFail
	ReplyPostpone = rule.ReplyPostpone
)
