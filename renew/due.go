package renew

// dueByNode is what one firing found due, by node.
type dueByNode []outgoing

type outgoing struct {
	node         Renewer
	senders      *nodeSenders
	first, again []waiting
}

// of returns the part of a hold's node. Called with mu held.
func (o *dueByNode) of(k *Cohorts, s Subject) *outgoing {
	node := k.route(s)
	for i := range *o {
		if (*o)[i].node == node {
			return &(*o)[i]
		}
	}
	p := k.senders[node]
	if p == nil {
		p = k.open(node)
		k.senders[node] = p
		k.order = append(k.order, p)
	}
	part := outgoing{node: node, senders: p}
	if last := len(k.spaces) - 1; last >= 0 {
		part.first, k.spaces = k.spaces[last], k.spaces[:last]
	}
	*o = append(*o, part)
	return &(*o)[len(*o)-1]
}

// add has a hold renewed over one of its node's connections.
func (o *outgoing) add(s Subject, second bool) {
	h := s.Watched()
	w := waiting{
		subject: s, deadline: h.Deadline(), due: h.next, patience: patience(h.Lease()), work: h.Family.Work(h.Field),
	}
	if second {
		o.again = append(o.again, w)
	} else {
		o.first = append(o.first, w)
	}
}

// send gives what is due to the senders, which keep none of its slices.
func (o dueByNode) send(k *Cohorts) {
	for i := range o {
		o[i].senders.first.add(o[i].first)
		o[i].senders.again.add(o[i].again)
		clear(o[i].first)
		if space := kept(o[i].first); space != nil {
			k.spaces = append(k.spaces, space)
		}
	}
}
