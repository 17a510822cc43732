package resp

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// mostText is how much of a foreign text is shown: room for a redirection to the longest name of a host.
const mostText = 320

// Printable returns a text of a server as it may stand in an error or in a line of a log: on one line, without what
// moves a cursor or turns the direction of writing, and not longer than about 320 bytes. Ordinary text stays as it is.
func Printable(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		if b.Len() >= mostText {
			b.WriteString("…")
			break
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		i += size
	}
	return b.String()
}

// How many bytes of a secret give it away: its first ones, or some from its middle, where the beginning was cut off.
const secretBegin, secretPart = 4, 6

// Hide returns what takes secrets out of a text. A server may cut or quote what it echoes: from the first bytes of a
// secret on, or from some that follow each other in it, all is left out. Nil: there is none.
func Hide(secrets ...string) func(text string) string {
	var parts []string
	var forms []string // as it stands in a text, and as it stands in one that quotes it
	for _, secret := range secrets {
		quoted := strconv.Quote(secret)
		forms = append(forms, quoted[1:len(quoted)-1], Printable(secret))
	}
	for _, shown := range forms {
		if shown == "" {
			continue
		}
		parts = append(parts, shown[:min(len(shown), secretBegin)])
		for i := secretPart; i <= len(shown); i++ {
			parts = append(parts, shown[i-secretPart:i])
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return func(text string) string {
		for _, part := range parts {
			if at := strings.Index(text, part); at >= 0 {
				text = text[:at] + "***"
			}
		}
		return text
	}
}

// hidden takes out of an error what a server has echoed of its user's password: in an answer to the handshake, or
// later, of what it has kept. An error that no server has a word in stays the very same: some are known by what they
// are.
func hidden(hide func(text string) string, e *ServerError) *ServerError {
	if hide == nil || !e.quotes() {
		return e
	}
	text := hide(e.Text)
	if text == e.Text {
		return e
	}
	return &ServerError{Class: e.Class, Text: text, said: true, malformed: e.malformed} // the cause has it, too
}

// quotes reports whether the text has a server's own words. The network's are none.
func (e *ServerError) quotes() bool {
	if e == nil {
		return false
	}
	var inner *ServerError
	return e.said || e.malformed || errors.Is(e.cause, ErrReply) || errors.As(e.cause, &inner) && inner.quotes()
}

// unreachable wraps the failure to connect to the endpoint.
func (p *endpoint) unreachable(err error) *ServerError {
	failed := unreachable(err)
	if err == context.DeadlineExceeded { //nolint:errorlint // bare: by itself it reads as if the caller's had ended
		failed.Text = "cannot connect: no answer from " + p.address() + " in time"
	}
	return hidden(p.hide, failed)
}

// refused classifies what an endpoint has answered to the first command of a connection.
func (p *endpoint) refused(err error) *ServerError { return hidden(p.hide, classify(err)) }
