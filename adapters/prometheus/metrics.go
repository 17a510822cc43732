package holdfastprom

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-786ebc8c/holdfast/engine"
)

// kindOf follows from the name: counters end in _total.
func kindOf(name string) prometheus.ValueType {
	if strings.HasSuffix(name, "_total") {
		return prometheus.CounterValue
	}
	return prometheus.GaugeValue
}

// of is a metric with one value an engine.
func of(name, help string, value func(*engine.Stats) int64) metric {
	return metric{name: name, help: help, kind: kindOf(name), read: func(s *engine.Stats, out output) { out.value(value(s)) }}
}

// ofNode is a metric with one value a node.
func ofNode(name, help string, value func(*engine.NodeStats) int64) metric {
	return metric{
		name: name, help: help, kind: kindOf(name), labels: []string{"node"},
		read: func(s *engine.Stats, out output) {
			for i := range s.Nodes {
				out.value(value(&s.Nodes[i]), s.Nodes[i].Addr)
			}
		},
	}
}

// ofClass is a metric with one value a class of names.
func ofClass(name, help string, value func(*engine.ClassStats) int64) metric {
	return metric{
		name: name, help: help, kind: kindOf(name), labels: []string{"class"},
		read: func(s *engine.Stats, out output) {
			for i := range s.Classes {
				out.value(value(&s.Classes[i]), s.Classes[i].Class)
			}
		},
	}
}

// histogramOfClass is a histogram for each class of names.
func histogramOfClass(name, help string, of func(*engine.ClassStats) *engine.Histogram) metric {
	return metric{
		name: name, help: help, labels: []string{"class"},
		read: func(s *engine.Stats, out output) {
			for i := range s.Classes {
				out.histogram(of(&s.Classes[i]), s.Classes[i].Class)
			}
		},
	}
}

// metrics lists everything, in the order of its subjects.
func metrics() (all []metric) {
	for _, part := range [][]metric{ofLocks(), ofContention(), ofClasses(), ofRenewals(), ofTopology(), ofCallbacks(), ofNodes(), ofPubSub()} {
		all = append(all, part...)
	}
	return all
}

// ofLocks: what became of locks.
func ofLocks() []metric {
	return []metric{
		{
			name: "grants_total", help: "Leases given to callers, by what sent for them.",
			kind: prometheus.CounterValue, labels: []string{"by"},
			read: func(s *engine.Stats, out output) {
				out.value(s.Grants-s.GrantsByHandOff-s.GrantsByMessage-s.GrantsByPoll, "first_try")
				out.value(s.GrantsByHandOff, "handoff")
				out.value(s.GrantsByMessage, "message")
				out.value(s.GrantsByPoll, "poll")
			},
		},
		of("releases_total", "Leases given back.",
			func(s *engine.Stats) int64 { return s.Releases }),
		of("releases_heard_total", "Of the releases sent, those that somebody was subscribed to.",
			func(s *engine.Stats) int64 { return s.Heard }),
		of("refused_total", "Tries that were told that the lock is held.",
			func(s *engine.Stats) int64 { return s.Refused }),
		of("errors_total", "Acquires ended by an error of the server or of the network.",
			func(s *engine.Stats) int64 { return s.Errors }),
		of("lost_total", "Leases lost.",
			func(s *engine.Stats) int64 { return s.Lost }),
		of("grants_by_linger_total", "Of the grants by hand-off, those of locks that lingered.",
			func(s *engine.Stats) int64 { return s.GrantsByLinger }),
		of("lingers_lost_total", "Lingering locks that were lost: nobody had them.",
			func(s *engine.Stats) int64 { return s.LingersLost }),
		of("leaked_total", "Leases dropped without Release.",
			func(s *engine.Stats) int64 { return s.Leaked }),
		of("ghosts_released_total", "Grants that nobody could use, given back.",
			func(s *engine.Stats) int64 { return s.Ghosts }),
		of("ghosts_abandoned_total", "Grants that could not be given back, left to expire.",
			func(s *engine.Stats) int64 { return s.Abandoned }),
		of("unseen_total", "Grants that too few replicas had seen, given back.",
			func(s *engine.Stats) int64 { return s.Unseen }),
		of("too_late_total", "Grants whose answer took as long as their lease.",
			func(s *engine.Stats) int64 { return s.TooLate }),
		of("passed_over_total", "Times a waiter that a release had woken found that others had taken what was free.",
			func(s *engine.Stats) int64 { return s.PassedOver }),
		of("held", "Locks held now.",
			func(s *engine.Stats) int64 { return s.Held }),
		of("names", "Names with anything going on now.",
			func(s *engine.Stats) int64 { return s.Names }),
	}
}

// ofContention: who waits, for how long, and why no more.
func ofContention() []metric {
	return []metric{
		of("waits_total", "Acquires that were told busy and waited.",
			func(s *engine.Stats) int64 { return s.Waits }),
		of("waiting", "Acquires in local queues now.",
			func(s *engine.Stats) int64 { return s.Waiting }),
		of("waits_local_total", "Acquires that queued because this engine held the lock.",
			func(s *engine.Stats) int64 { return s.WaitsLocal }),
		{
			name: "given_up_total", help: "Acquires that their callers gave up, by why.",
			kind: prometheus.CounterValue, labels: []string{"by"},
			read: func(s *engine.Stats, out output) {
				out.value(s.EndedByMaxWait, "max_wait")
				out.value(s.EndedByContext, "context")
				out.value(s.EndedByCancel, "cancel")
			},
		},
		{
			name: "wait_seconds", help: "How long acquires that were granted had waited.",
			read: func(s *engine.Stats, out output) { out.histogram(&s.Wait) },
		},
		{
			name: "hold_seconds", help: "How long leases were held that were given back.",
			read: func(s *engine.Stats, out output) { out.histogram(&s.Hold) },
		},
		{
			name: "wakeups_total", help: "Times a waiting queue was woken, by what woke it.",
			kind: prometheus.CounterValue, labels: []string{"by"},
			read: func(s *engine.Stats, out output) {
				out.value(s.WokenByMessage, "message")
				out.value(s.WokenBySubscribe, "subscribe")
				out.value(s.WokenByReconnect, "reconnect")
				out.value(s.WokenByPoll, "poll")
			},
		},
	}
}

// ofClasses: the same for each class of names.
func ofClasses() []metric {
	return []metric{
		ofClass("class_waits_total", "Acquires of a class of names that were told busy and waited.",
			func(c *engine.ClassStats) int64 { return c.Waits }),
		ofClass("class_refused_total", "Tries of a class of names that were told that the lock is held.",
			func(c *engine.ClassStats) int64 { return c.Refused }),
		ofClass("class_given_up_total", "Acquires of a class of names that their callers gave up.",
			func(c *engine.ClassStats) int64 { return c.GaveUp }),
		ofClass("class_lost_total", "Leases of a class of names that were lost.",
			func(c *engine.ClassStats) int64 { return c.Lost }),
		histogramOfClass("class_wait_seconds", "How long acquires of a class of names that were granted had waited.",
			func(c *engine.ClassStats) *engine.Histogram { return &c.Wait }),
		histogramOfClass("class_hold_seconds", "How long leases of a class of names were held that were given back.",
			func(c *engine.ClassStats) *engine.Histogram { return &c.Hold }),
	}
}

// ofRenewals: the watchdog.
func ofRenewals() []metric {
	return []metric{
		of("watched", "Holds under the watchdog's care now.",
			func(s *engine.Stats) int64 { return s.Renewals.Watched }),
		of("renewals_total", "Renewals sent, a lock each.",
			func(s *engine.Stats) int64 { return s.Renewals.Sent }),
		of("renewals_failed_total", "Of those, answered with an error or not at all.",
			func(s *engine.Stats) int64 { return s.Renewals.Failed }),
		of("renewals_late_total", "Renewals that succeeded more than half a lease after the success before.",
			func(s *engine.Stats) int64 { return s.Renewals.Late }),
		{
			name: "renewal_lag_seconds", help: "How long after they were due renewals were answered.",
			read: func(s *engine.Stats, out output) { out.histogram(&s.RenewalLag) },
		},
		of("jeopardies_total", "Times a hold had no answered renewal for two periods.",
			func(s *engine.Stats) int64 { return s.Renewals.Jeopardies }),
	}
}

// ofTopology: servers that come and go.
func ofTopology() []metric {
	return []metric{
		of("connections_refused_total", "Connections closed because the server sent what no server sends, or far too much.",
			func(s *engine.Stats) int64 { return s.ConnectionsRefused }),
		of("slot_table_reads_total", "Times the cluster's table of slots was read.",
			func(s *engine.Stats) int64 { return s.Slots.TableReads }),
		of("slot_table_changes_total", "Times it changed.",
			func(s *engine.Stats) int64 { return s.Slots.TableChanges }),
		of("masters_total", "Times the sentinels named another master.",
			func(s *engine.Stats) int64 { return s.Slots.Masters }),
		of("strangers_total", "Redirections to nodes that no table has named, beyond those that are followed.",
			func(s *engine.Stats) int64 { return s.Slots.Strangers }),
		of("redirects_total", "Commands that a node of the cluster refused and another was asked.",
			func(s *engine.Stats) int64 { return s.Slots.Redirects }),
	}
}

// ofCallbacks: code of others, and time.
func ofCallbacks() []metric {
	return []metric{
		of("callbacks_total", "OnComplete callbacks run, and lines given to the logger.",
			func(s *engine.Stats) int64 { return s.Callbacks }),
		of("callback_panics_total", "Of those, that panicked.",
			func(s *engine.Stats) int64 { return s.CallbackPanics }),
		of("logs_dropped_total", "Lines that the logger was too slow for.",
			func(s *engine.Stats) int64 { return s.LogsDropped }),
		of("timing_wheel_stuck_total", "Times the timing wheel was found stuck.",
			func(s *engine.Stats) int64 { return s.TimingWheelStuck }),
		of("callback_overflows_total", "Workers added to a callback pool whose workers were all stuck.",
			func(s *engine.Stats) int64 { return s.CallbackOverflows }),
	}
}

// ofNodes: one server each.
func ofNodes() []metric {
	return []metric{
		{
			name: "node_info", help: "1; the node's server version is a label.",
			kind: prometheus.GaugeValue, labels: []string{"node", "version"},
			read: func(s *engine.Stats, out output) {
				for i := range s.Nodes {
					out.value(1, s.Nodes[i].Addr, s.Nodes[i].Version)
				}
			},
		},
		ofNode("node_batches_total", "Pipelines written.",
			func(n *engine.NodeStats) int64 { return n.Batches }),
		ofNode("node_queued", "Commands waiting to be sent now.",
			func(n *engine.NodeStats) int64 { return int64(n.Queued) }),
		ofNode("node_overloaded_total", "Acquires refused because too many were waiting to be sent.",
			func(n *engine.NodeStats) int64 { return n.Overloaded }),
		ofNode("node_reconnects_total", "Connections made beyond the first of each kind.",
			func(n *engine.NodeStats) int64 { return n.Reconnects }),
		ofNode("node_script_reloads_total", "Times the server had forgotten the scripts.",
			func(n *engine.NodeStats) int64 { return n.ScriptReloads }),
		ofNode("node_revived_total", "Releases that a server which took over, or came back, had not heard of, and was told again.",
			func(n *engine.NodeStats) int64 { return n.Revived }),
	}
}

// ofPubSub: the subscriptions at one server.
func ofPubSub() []metric {
	return []metric{
		ofNode("pubsub_channels", "Channels known now, lingering and refused ones included.",
			func(n *engine.NodeStats) int64 { return n.Subscriptions.Channels }),
		ofNode("pubsub_confirmed", "Channels subscribed now.",
			func(n *engine.NodeStats) int64 { return n.Subscriptions.Confirmed }),
		ofNode("pubsub_lingering", "Channels subscribed now that nobody waits on.",
			func(n *engine.NodeStats) int64 { return n.Subscriptions.Lingering }),
		ofNode("pubsub_references", "Waiting queues that reference a channel now.",
			func(n *engine.NodeStats) int64 { return n.Subscriptions.Refs }),
		ofNode("pubsub_messages_total", "Messages received.",
			func(n *engine.NodeStats) int64 { return n.Subscriptions.Messages }),
		ofNode("pubsub_unheard_total", "Of those, on channels that nobody references.",
			func(n *engine.NodeStats) int64 { return n.Subscriptions.Unheard }),
		ofNode("pubsub_connects_total", "Subscription connections opened.",
			func(n *engine.NodeStats) int64 { return n.Subscriptions.Connects }),
		ofNode("pubsub_reconnects_total", "Of those, all but the first.",
			func(n *engine.NodeStats) int64 { return n.Subscriptions.Reconnects }),
		ofNode("pubsub_dial_failures_total", "Attempts to open one that failed.",
			func(n *engine.NodeStats) int64 { return n.Subscriptions.DialFailures }),
		ofNode("pubsub_subscribes_total", "Channels asked for.",
			func(n *engine.NodeStats) int64 { return n.Subscriptions.Subscribes }),
		ofNode("pubsub_unsubscribes_total", "Channels given back to the server.",
			func(n *engine.NodeStats) int64 { return n.Subscriptions.Unsubscribes }),
		ofNode("pubsub_rounds_total", "Pipelines sent to do both.",
			func(n *engine.NodeStats) int64 { return n.Subscriptions.Rounds }),
		ofNode("pubsub_refused_total", "Refusals of a channel by the server.",
			func(n *engine.NodeStats) int64 { return n.Subscriptions.Refused }),
		ofNode("pubsub_moved_total", "Sharded channels that the server dropped because their slot left.",
			func(n *engine.NodeStats) int64 { return n.Subscriptions.Moved }),
		ofNode("pubsub_probes_total", "Delivery probes sent.",
			func(n *engine.NodeStats) int64 { return n.Subscriptions.Probes }),
		ofNode("pubsub_probes_lost_total", "Of those, not come back: the connection was replaced.",
			func(n *engine.NodeStats) int64 { return n.Subscriptions.ProbesLost }),
	}
}
