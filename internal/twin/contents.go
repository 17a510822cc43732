package twin

// How many bytes of fields and values a call reads, and how many pages.
const contentsBytes, contentsPages = 1 << 20, 50000

// contents is the twin of fragments/contents.lua.
type contents struct {
	*Server
	room, pages int
}

func newContents(s *Server) contents {
	return contents{Server: s, room: contentsBytes, pages: contentsPages}
}

// of lists the fields of a hash of so many, and their values; not ok: they are more than is read, or refused.
func (c *contents) of(key string, size int64) (fields Reply, ok bool) {
	cursor := text("0")
	var out []Reply
	for range contentsPages {
		if c.room < 0 || c.pages <= 0 {
			return Reply{}, false
		}
		c.pages--
		var all Reply
		page, paged := Reply{}, size > 2
		if paged {
			page = c.pcall("HSCAN", key, cursor.Text, "COUNT", "1")
		}
		if !paged || page.err() {
			if all = c.pcall("HGETALL", key); all.err() {
				return all, false
			}
			cursor = text("0")
		} else {
			cursor, all = page.Array[0], page.Array[1]
		}
		for _, text := range all.Array {
			c.room -= len(text.Text)
		}
		out = append(out, all.Array...)
		if cursor.Text == "0" {
			return array(out), c.room >= 0
		}
	}
	return Reply{}, false
}
