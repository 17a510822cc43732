package metrics

import (
	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// by is a series of a family that has several, told apart by one label.
func by(label, is string, value int64) series {
	return series{labels: label + `="` + is + `"`, value: value}
}

// ofEngine is a family with one series an engine.
func ofEngine(name, help string, value func(*engine.Stats) int64) family {
	return family{name: name, help: help, engine: func(s *engine.Stats) []series {
		return []series{{value: value(s)}}
	}}
}

// ofNode is a family with one series a node.
func ofNode(name, help string, value func(*resp.NodeStats) int64) family {
	return family{name: name, help: help, node: func(n *resp.NodeStats) []series {
		return []series{{value: value(n)}}
	}}
}

// families is every metric, in the order of the page.
//
//nolint:gochecknoglobals // a constant in all but name
var families = []family{
	{
		name: "grants_total", help: "Leases given to callers, by what sent for them.",
		engine: func(s *engine.Stats) []series {
			rest := s.Grants - s.GrantsByHandOff - s.GrantsByMessage - s.GrantsByPoll
			return []series{
				by("by", "first_try", rest), by("by", "handoff", s.GrantsByHandOff),
				by("by", "message", s.GrantsByMessage), by("by", "poll", s.GrantsByPoll),
			}
		},
	},
	ofEngine("releases_total", "Leases given back.", func(s *engine.Stats) int64 { return s.Releases }),
	ofEngine("releases_heard_total", "Of the releases sent, those that somebody was subscribed to.", func(s *engine.Stats) int64 { return s.Heard }),
	ofEngine("refused_total", "Tries that were told that the lock is held.", func(s *engine.Stats) int64 { return s.Refused }),
	ofEngine("waits_total", "Acquires that were told busy and waited.", func(s *engine.Stats) int64 { return s.Waits }),
	ofEngine("errors_total", "Acquires ended by an error of the server or of the network.", func(s *engine.Stats) int64 { return s.Errors }),
	ofEngine("lost_total", "Leases lost.", func(s *engine.Stats) int64 { return s.Lost }),
	ofEngine("leaked_total", "Leases dropped without Release.", func(s *engine.Stats) int64 { return s.Leaked }),
	ofEngine("ghosts_released_total", "Grants that nobody could use, given back.", func(s *engine.Stats) int64 { return s.Ghosts }),
	ofEngine("ghosts_abandoned_total", "Grants that could not be given back, left to expire.", func(s *engine.Stats) int64 { return s.Abandoned }),
	ofEngine("unseen_total", "Grants that too few replicas had seen, given back.", func(s *engine.Stats) int64 { return s.Unseen }),
	ofEngine("too_late_total", "Grants whose answer took as long as their lease.", func(s *engine.Stats) int64 { return s.TooLate }),
	ofEngine("connections_refused_total", "Connections closed because the server sent what no server sends, or far too much.",
		func(s *engine.Stats) int64 { return s.ConnectionsRefused }),
	{
		name: "wakeups_total", help: "Times a waiting queue was woken, by what woke it.",
		engine: func(s *engine.Stats) []series {
			return []series{
				by("by", "message", s.WokenByMessage), by("by", "subscribe", s.WokenBySubscribe),
				by("by", "reconnect", s.WokenByReconnect), by("by", "poll", s.WokenByPoll),
			}
		},
	},
	ofEngine("held", "Locks held now.", func(s *engine.Stats) int64 { return s.Held }),
	ofEngine("waiting", "Acquires in local queues now.", func(s *engine.Stats) int64 { return s.Waiting }),
	ofEngine("names", "Names with anything going on now.", func(s *engine.Stats) int64 { return s.Names }),

	ofEngine("watched", "Holds under the watchdog's care now.", func(s *engine.Stats) int64 { return s.Renewals.Watched }),
	ofEngine("renewals_total", "Renewals sent, a lock each.", func(s *engine.Stats) int64 { return s.Renewals.Sent }),
	ofEngine("renewals_failed_total", "Of those, answered with an error or not at all.", func(s *engine.Stats) int64 { return s.Renewals.Failed }),
	ofEngine("jeopardies_total", "Times a hold had no answered renewal for two periods.", func(s *engine.Stats) int64 { return s.Renewals.Jeopardies }),

	ofEngine("slot_table_reads_total", "Times the cluster's table of slots was read.", func(s *engine.Stats) int64 { return s.Slots.TableReads }),
	ofEngine("slot_table_changes_total", "Times it changed.", func(s *engine.Stats) int64 { return s.Slots.TableChanges }),
	ofEngine("masters_total", "Times the sentinels named another master.", func(s *engine.Stats) int64 { return s.Slots.Masters }),
	ofEngine("strangers_total", "Redirections to nodes that no table has named, beyond those that are followed.", func(s *engine.Stats) int64 { return s.Slots.Strangers }),
	ofEngine("redirects_total", "Commands that a node of the cluster refused and another was asked.", func(s *engine.Stats) int64 { return s.Slots.Redirects }),

	ofEngine("callbacks_total", "OnComplete callbacks run, and lines given to the logger.", func(s *engine.Stats) int64 { return s.Callbacks }),
	ofEngine("callback_panics_total", "Of those, that panicked.", func(s *engine.Stats) int64 { return s.CallbackPanics }),
	ofEngine("logs_dropped_total", "Lines that the logger was too slow for.", func(s *engine.Stats) int64 { return s.LogsDropped }),
	ofEngine("timing_wheel_stuck_total", "Times the timing wheel was found stuck.", func(s *engine.Stats) int64 { return s.TimingWheelStuck }),
	ofEngine("callback_overflows_total", "Workers added to a callback pool whose workers were all stuck.", func(s *engine.Stats) int64 { return s.CallbackOverflows }),

	{
		name: "node_info", help: "1; the node's server version is a label.",
		node: func(n *resp.NodeStats) []series { return []series{by("version", escape(n.Version), 1)} },
	},
	ofNode("node_batches_total", "Pipelines written.", func(n *resp.NodeStats) int64 { return n.Batches }),
	ofNode("node_queued", "Commands waiting to be sent now.", func(n *resp.NodeStats) int64 { return int64(n.Queued) }),
	ofNode("node_overloaded_total", "Acquires refused because too many were waiting to be sent.", func(n *resp.NodeStats) int64 { return n.Overloaded }),
	ofNode("node_reconnects_total", "Connections made beyond the first of each kind.", func(n *resp.NodeStats) int64 { return n.Reconnects }),
	ofNode("node_script_reloads_total", "Times the server had forgotten the scripts.", func(n *resp.NodeStats) int64 { return n.ScriptReloads }),

	ofNode("pubsub_channels", "Channels known now, lingering and refused ones included.", func(n *resp.NodeStats) int64 { return n.Subscriptions.Channels }),
	ofNode("pubsub_confirmed", "Channels subscribed now.", func(n *resp.NodeStats) int64 { return n.Subscriptions.Confirmed }),
	ofNode("pubsub_lingering", "Channels subscribed now that nobody waits on.", func(n *resp.NodeStats) int64 { return n.Subscriptions.Lingering }),
	ofNode("pubsub_references", "Waiting queues that reference a channel now.", func(n *resp.NodeStats) int64 { return n.Subscriptions.Refs }),
	ofNode("pubsub_messages_total", "Messages received.", func(n *resp.NodeStats) int64 { return n.Subscriptions.Messages }),
	ofNode("pubsub_unheard_total", "Of those, on channels that nobody references.", func(n *resp.NodeStats) int64 { return n.Subscriptions.Unheard }),
	ofNode("pubsub_connects_total", "Subscription connections opened.", func(n *resp.NodeStats) int64 { return n.Subscriptions.Connects }),
	ofNode("pubsub_reconnects_total", "Of those, all but the first.", func(n *resp.NodeStats) int64 { return n.Subscriptions.Reconnects }),
	ofNode("pubsub_dial_failures_total", "Attempts to open one that failed.", func(n *resp.NodeStats) int64 { return n.Subscriptions.DialFailures }),
	ofNode("pubsub_subscribes_total", "Channels asked for.", func(n *resp.NodeStats) int64 { return n.Subscriptions.Subscribes }),
	ofNode("pubsub_unsubscribes_total", "Channels given back to the server.", func(n *resp.NodeStats) int64 { return n.Subscriptions.Unsubscribes }),
	ofNode("pubsub_rounds_total", "Pipelines sent to do both.", func(n *resp.NodeStats) int64 { return n.Subscriptions.Rounds }),
	ofNode("pubsub_refused_total", "Refusals of a channel by the server.", func(n *resp.NodeStats) int64 { return n.Subscriptions.Refused }),
	ofNode("pubsub_moved_total", "Sharded channels that the server dropped because their slot left.", func(n *resp.NodeStats) int64 { return n.Subscriptions.Moved }),
	ofNode("pubsub_probes_total", "Delivery probes sent.", func(n *resp.NodeStats) int64 { return n.Subscriptions.Probes }),
	ofNode("pubsub_probes_lost_total", "Of those, not come back: the connection was replaced.", func(n *resp.NodeStats) int64 { return n.Subscriptions.ProbesLost }),
}
