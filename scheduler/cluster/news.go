package cluster

// heard handles a line of the stream of news.
func (n *Node) heard(line news) {
	if line.limit != "" {
		n.limitNews(line.limit)
	}
}
