package ctlfile

func aDraft() *Draft {
	return &Draft{
		Name: "258367", Body: 412, LogID: "<m1@example.org>", ErrorTo: "alice@example.org",
		Groups: []Group{{
			Envelopes: []Envelope{{
				Sender: Quad{"smtp", "mx.example.org", "alice@example.org", "0"},
				Recipients: []Addressee{
					{
						Quad: Quad{"smtp", "example.net", "bob@example.net", "0"},
						DSN:  "NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;bob@example.net", Ret: "HDRS", EnvID: "env-77",
					},
					{Quad: Quad{"local", "", "carol x", "501"}},
				},
			}},
			Header: "Received: by mx\n\tid 1\nSubject: x\n",
		}},
	}
}
