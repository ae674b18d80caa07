package cluster

// heard takes a line of news.
func (n *Node) heard(line news) {
	if line.limit != "" {
		n.limitNews(line.limit)
	}
}
