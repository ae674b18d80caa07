package smtpserver

// Counts: what the metrics show, and whether mail can be accepted.

import (
	"maps"
	"time"
)

// Counts are what a server does, and what it has done since its start.
type Counts struct {
	Open            int // sessions
	Sessions        int // that have begun
	TLS             int // TLS handshakes
	Logins          int // passwords given
	LoginsRefused   int
	Messages        int // accepted, and so are Recipients and Bytes
	Recipients      int
	Bytes           int64
	CommitTime      time.Duration  // for which the accepted messages have waited for the disk
	Refused         map[string]int // replies of class 4 and 5, by reason
	Submissions     int64          // files in router/, up to twenty times Options.RouterMax; 0 without that
	CertificateEnds time.Time      // zero: there is none; at Unix time 0: it cannot be read
}

// Counts returns what the server has counted.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	c := s.counts
	c.Open, c.Refused = len(s.sessions), maps.Clone(c.Refused)
	s.mu.Unlock()
	config := s.config.Load()
	c.Submissions = config.flow.files.Load()
	if config.TLS != nil {
		c.CertificateEnds = time.Unix(0, 0)
		if pair, err := config.TLS.GetCertificate(nil); err == nil {
			c.CertificateEnds = pair.Leaf.NotAfter
		}
	}
	return c
}

// count changes the counts.
func (s *Server) count(change func(*Counts)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.counts)
}

// Unhealthy returns why no mail can be accepted; "" if it can.
func (s *Server) Unhealthy() string {
	select {
	case <-s.stopped:
		return errStopping.text
	default:
	}
	if err := s.config.Load().flow.admit(0); err != nil {
		return err.Error()
	}
	if down := s.queue.down.Load(); down != nil && time.Since(down.at) < faultPeriod {
		return "the last message could not be stored: " + down.err.Error()
	}
	return ""
}
