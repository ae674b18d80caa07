package server

// counterBlocks are the names of SHOW COUNTERS in their order, one string for each
// block; an empty line separates blocks. Most of them counted what other programs
// of ZMailer do. They are zero, so that scripts still find their lines.
var counterBlocks = [...]string{
	`Time_now Block_creation_time SYS.Load-Avg-1-min-G SYS.Load-Avg-5-min-G`,
	`SYS.RouterMasterPID SYS.RouterMasterStartTime SYS.RouterMasterStarts SYS.SchedulerMasterPID
	 SYS.SchedulerMasterStartTime SYS.SchedulerMasterStarts SC.SchedulerTimeserverPID
	 SC.SchedulerTimeserverTime SC.SchedulerTimeserverStarts SC.SchedulerTimeserverStartTime
	 SYS.SmtpServerMasterPID SYS.SmtpServerMasterStartTime SYS.SmtpServerMasterStarts
	 SS.SubsysRateTrackerPID SS.SubsysRouterMasterPID SS.SubsysContentfilterMasterPID
	 SS.Irouter-reply-delay-G SS.Irouter-queue-G SS.Cfilter-reply-delay-G SS.Cfilter-queue-G
	 SYS.SpoolFreeSpace-kB-G SYS.SpoolUsedSpace-kB-G SYS.SpoolFreeFiles-G SYS.SpoolUsedFiles-G
	 SYS.TportSpoolFreeSpace-kB-G SYS.TportSpoolUsedSpace-kB-G SYS.TportSpoolFreeFiles-G
	 SYS.TportSpoolUsedFiles-G SYS.LogFreeSpace-kB-G SYS.LogUsedSpace-kB-G SYS.LogFreeFiles-G
	 SYS.LogUsedFiles-G`,
	`SS.Processes-G SS.ParallelSMTPconnects-G SS.ParallelSMTPSconnects-G SS.ParallelSUBMITconnects-G
	 SS.ProcessForks SS.ProcessForkFailures SS.ContentPolicyForkFailures SS.SMTPconnects SS.SMTPSconnects
	 SS.SUBMITconnects SS.MaxSameIpSourceCloses SS.MaxParallelConnectionCloses SS.SMTPcommands
	 SS.SMTPcommands-unknown SS.IncomingClientPipelines SS.IncomingSmtpTarpits SS.SMTP_HELO
	 SS.SMTP_HELO_ok SS.SMTP_HELO_bad SS.SMTP_EHLO SS.SMTP_EHLO_ok SS.SMTP_EHLO_bad SS.SMTP_STARTTLS
	 SS.SMTPTLSes SS.SMTP_STARTTLS_fail SS.SMTP_NOOP SS.SMTP_RSET SS.SMTP_HELP SS.SMTP_ETRN SS.SMTP_EXPN
	 SS.SMTP_VRFY SS.SMTP_TICK SS.SMTP_TURN SS.SMTP_VERBOSE SS.SMTP_DEBUG SS.SMTP_MAIL SS.SMTP_MAIL_ok
	 SS.SMTP_MAIL_bad SS.SMTP_RCPT SS.SMTP_RCPT_ok SS.SMTP_RCPT_bad SS.Smtp-Opt-ENVID SS.Smtp-Opt-SIZE
	 SS.Smtp-Opt-AUTH SS.Smtp-Opt-DELIVERBY SS.Smtp-Opt-BODY-8BITMIME SS.Smtp-Opt-BODY-BINARYMIME
	 SS.Smtp-Opt-BODY-7BIT SS.Smtp-Opt-RETURN SS.Smtp-Opt-NOTIFY SS.Smtp-Opt-ORCPT SS.SMTP_DATA
	 SS.SMTP_DATA_ok SS.SMTP_DATA_bad SS.SMTP_BDAT SS.SMTP_BDAT_ok SS.SMTP_BDAT_bad SS.SMTP_DATA-kB
	 SS.SMTP_BDAT-kB SS.SMTP_input_spool-kB SS.ReceivedMessages SS.ReceivedRecipients
	 SS.TransmittedMessages SS.TransmittedRecipients`,
	`RT.RouterProcesses-G RT.RouterProcessForks RT.RouterProcessFaults RT.ReceivedMessages
	 RT.ReceivedRecipients RT.TransmittedMessages RT.TransmittedRecipients RT.ReceivedVolume-kB
	 RT.TransmittedVolume-kB RT.TransmittedVolume2-kB RT.StoredMessages-G RT.StoredVolume-kB-G`,
	`SC.ReceivedMessages SC.ReceivedRecipients SC.TransmittedMessages SC.TransmittedRecipients
	 SC.StoredMessages-G SC.StoredThreads-G SC.StoredVertices-G SC.StoredRecipients-G
	 SC.ReceivedVolume-kB SC.StoredVolume-kB-G SC.TransmittedVolume-kB SC.TransportAgentForks
	 SC.TransportAgentProcesses-G SC.TransportAgentsActive-G SC.TransportAgentsIdle-G SC.MQ2Parallel-G
	 SC.MQ2Connects SC.MQ2TcpWrapRej SC.MQ2AuthRej SC.MQ2TimedOut SC.MQ2ReadEOF SC.MQ2ReadFails
	 SC.MQ2WriteFails SC.MQ2Commands SC.MQ2CommandsRej SC.MQ2CommandAUTH SC.MQ2CommandQUIT
	 SC.MQ2CommandETRN SC.MQ2CommandKillThr SC.MQ2CommandKillMsg SC.MQ2CommandKillProcess
	 SC.MQ2CommandRerouteThr SC.MQ2CommandRerouteMsg SC.MQ2CommandShowQueueThreads
	 SC.MQ2CommandShowQueueThreads2 SC.MQ2CommandShowQueueShort SC.MQ2CommandShowQueueVeryShort
	 SC.MQ2CommandShowThread SC.MQ2CommandShowCounters`,
	`TA-SMTP.TaProcessStarts TA-SMTP.TaProcCount-G TA-SMTP.TaIdleStates TA-SMTP.TaMessages
	 TA-SMTP.TaDeliveryStarts TA-SMTP.SmtpStarts TA-SMTP.SmtpConnects TA-SMTP.SmtpConnectFails
	 TA-SMTP.SmtpConnectsCnt-G TA-SMTP.LmtpConnects TA-SMTP.SmtpPIPELINING TA-SMTP.SmtpSTARTTLS
	 TA-SMTP.SmtpSTARTTLSok TA-SMTP.SmtpSTARTTLSfail TA-SMTP.SmtpEHLO TA-SMTP.SmtpEHLOok
	 TA-SMTP.SmtpEHLOfail TA-SMTP.SmtpHELO TA-SMTP.SmtpHELOok TA-SMTP.SmtpHELOfail TA-SMTP.SmtpLHLO
	 TA-SMTP.SmtpLHLOok TA-SMTP.SmtpLHLOfail TA-SMTP.capa8BITMIME TA-SMTP.capaAUTH TA-SMTP.capaDSN
	 TA-SMTP.capaCHUNKING TA-SMTP.capaDELIVERBY TA-SMTP.capaENHANCEDSTATUSCODES TA-SMTP.capaPIPELINING
	 TA-SMTP.capaSIZE TA-SMTP.capaSTARTTLS TA-SMTP.sent-option-ENVID TA-SMTP.sent-option-SIZE
	 TA-SMTP.sent-option-RET TA-SMTP.sent-option-NOTIFY TA-SMTP.sent-option-ORCPT TA-SMTP.SmtpMAIL
	 TA-SMTP.SmtpMAILok TA-SMTP.SmtpRCPT TA-SMTP.SmtpRCPTok TA-SMTP.SmtpDATA TA-SMTP.SmtpDATAok
	 TA-SMTP.SmtpBDAT TA-SMTP.SmtpBDATok TA-SMTP.SmtpDATAvolume-kB TA-SMTP.SmtpBDATvolume-kB
	 TA-SMTP.RcptsOk TA-SMTP.RcptsRetry TA-SMTP.RcptsFail mtaSuccessfulConvertedMessages
	 mtaFailedConvertedMessages mtaLoopsDetected`,
}

// agentGroups and agentCounters make the last six blocks: each group has every
// counter.
var (
	agentGroups   = [...]string{"TA-SMCM", "TA-MBOX", "TA-HOLD", "TA-ERRM", "TA-EXPI", "TA-RERT"}
	agentCounters = [...]string{
		"TaProcessStarts", "TaProcCount-G", "TaIdleStates", "TaMessages",
		"TaDeliveryStarts", "RcptsOk", "RcptsRetry", "RcptsFail",
	}
)
