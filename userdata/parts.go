package userdata

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"net/textproto"
	"slices"
	"strings"
	"unicode"
)

const (
	maxParts = 64
	// mergeHow makes cloud-init merge a part into the earlier ones like mergeMaps: lists are
	// joined, plain values of earlier parts kept. Without it the later part's runcmd would replace
	// the earlier one's.
	mergeHow = "list(append)+dict(no_replace,recurse_list)+str()"
)

// part of a MIME message; its body is still in the transfer encoding its header names.
type part struct {
	header textproto.MIMEHeader
	body   []byte
}

// mergeParts joins data that cannot become one #cloud-config: templates, which only the server can
// render, and multi-part data.
func mergeParts(user, boot source, input Input) ([]byte, error) {
	parts, err := user.parts(userScript)
	if err != nil {
		return nil, err
	}
	more, err := boot.parts(bootScript)
	if err != nil {
		return nil, err
	}
	beginning := mapping()
	if err := begin(beginning, user, boot, input); err != nil {
		return nil, err
	}
	if len(beginning.Content) > 0 {
		encoded, err := encodeConfig(beginning)
		if err != nil {
			return nil, err
		}
		parts = append(parts, newPart("text/cloud-config", encoded))
	}
	parts = append(parts, more...)
	document := mapping()
	if err := finish(document, user, boot, input); err != nil {
		return nil, err
	}
	if len(document.Content) > 0 {
		encoded, err := encodeConfig(document)
		if err != nil {
			return nil, err
		}
		// The last part gives way to a host name in an earlier one.
		parts = append(parts, newPart("text/cloud-config", encoded))
	}
	if len(parts) > maxParts {
		return nil, fmt.Errorf("merging user data: %d parts, at most %d are accepted", len(parts), maxParts)
	}
	for i := range parts {
		// A part with its own merge setting stays unchanged.
		contentType, _, _ := mime.ParseMediaType(parts[i].header.Get("Content-Type"))
		config := slices.Contains([]string{"text/cloud-config", "text/jinja2", "text/plain", ""}, contentType)
		if i > 0 && config && parts[i].header.Get("Merge-Type") == "" && parts[i].header.Get("X-Merge-Type") == "" {
			parts[i].header.Set("X-Merge-Type", mergeHow)
		}
		if err := parts[i].encode(); err != nil {
			return nil, fmt.Errorf("merging user data: %w", err)
		}
	}
	return writeParts(parts)
}

func (s source) parts(scriptPath string) ([]part, error) {
	switch s.format {
	case Empty:
		return nil, nil
	case Jinja:
		return []part{newPart("text/jinja2", s.data)}, nil
	case MultiPart:
		parts, err := readParts(s.data)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", s.name, err)
		}
		return parts, nil
	case Script, CloudConfig, Opaque:
		// They are one document, below.
	}
	document, err := s.document(scriptPath)
	if err != nil {
		return nil, err
	}
	encoded, err := encodeConfig(document)
	if err != nil {
		return nil, err
	}
	return []part{newPart("text/cloud-config", encoded)}, nil
}

func newPart(contentType string, body []byte) part {
	header := textproto.MIMEHeader{}
	header.Set("Content-Type", contentType+`; charset="utf-8"`)
	header.Set("Content-Transfer-Encoding", "8bit")
	return part{header: header, body: bytes.TrimLeft(body, blanks)}
}

// encode makes the body of a part ASCII. cloud-init 22.4 (Debian 12) reads a message as text
// (cloudinit/user_data.py, convert_string). Python's email library takes a text that claims to be
// 8bit for Latin-1 with escapes (email.message.Message.get_payload: raw-unicode-escape), which
// cloud-init then reads as UTF-8 (cloudinit/util.py, fully_decoded_payload). The result is not
// valid YAML, and cloud-init ignores the whole part. base64 is decoded to the right bytes.
func (p *part) encode() error {
	if bytes.IndexFunc(p.body, func(r rune) bool { return r > unicode.MaxASCII }) < 0 {
		return nil
	}
	mediaType, _, _ := mime.ParseMediaType(p.header.Get("Content-Type"))
	if strings.HasPrefix(mediaType, "multipart/") || strings.HasPrefix(mediaType, "message/") {
		return fmt.Errorf("a MIME part of type %s has text in it that is not ASCII: encode its own parts as base64", mediaType)
	}
	encoded := base64.StdEncoding.EncodeToString(p.body)
	var body bytes.Buffer
	for line := range slices.Chunk([]byte(encoded), 76) {
		body.Write(line)
		body.WriteString("\r\n")
	}
	p.body = body.Bytes()
	p.header.Set("Content-Transfer-Encoding", "base64")
	return nil
}

func readParts(data []byte) ([]part, error) {
	message, err := mail.ReadMessage(bytes.NewReader(bytes.TrimLeft(data, blanks)))
	if err != nil {
		return nil, errors.New("its MIME header cannot be read")
	}
	mediaType, parameters, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil || !strings.HasPrefix(mediaType, "multipart/") || parameters["boundary"] == "" {
		return nil, errors.New("it is not MIME multi-part with a boundary")
	}
	reader := multipart.NewReader(message.Body, parameters["boundary"])
	var parts []part
	for {
		next, err := reader.NextRawPart()
		if errors.Is(err, io.EOF) {
			return parts, nil
		}
		if err != nil {
			return nil, errors.New("its MIME parts cannot be read")
		}
		if len(parts) == maxParts {
			return nil, fmt.Errorf("it has more than %d MIME parts", maxParts)
		}
		body, err := io.ReadAll(next)
		if err != nil {
			return nil, errors.New("its MIME parts cannot be read")
		}
		parts = append(parts, part{header: next.Header, body: body})
	}
}

// writeParts gives the same bytes for the same parts: the boundary is made from them.
func writeParts(parts []part) ([]byte, error) {
	hash := sha256.New()
	for _, p := range parts {
		_, _ = fmt.Fprintf(hash, "%d\n%s", len(p.body), p.body)
	}
	boundary := "drover-" + hex.EncodeToString(hash.Sum(nil))[:32]
	var out bytes.Buffer
	fmt.Fprintf(&out, "Content-Type: multipart/mixed; boundary=%q\r\nMIME-Version: 1.0\r\n\r\n", boundary)
	writer := multipart.NewWriter(&out)
	if err := writer.SetBoundary(boundary); err != nil {
		return nil, fmt.Errorf("writing MIME parts: %w", err)
	}
	for _, p := range parts {
		target, err := writer.CreatePart(cleanHeader(p.header))
		if err != nil {
			return nil, fmt.Errorf("writing MIME parts: %w", err)
		}
		if _, err := target.Write(p.body); err != nil {
			return nil, fmt.Errorf("writing MIME parts: %w", err)
		}
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("writing MIME parts: %w", err)
	}
	return out.Bytes(), nil
}

// cleanHeader leaves out characters that could break out of a header line.
func cleanHeader(header textproto.MIMEHeader) textproto.MIMEHeader {
	out := textproto.MIMEHeader{}
	for key, values := range header {
		for _, value := range values {
			if !strings.ContainsAny(value, "\r\n\x00") && !slices.Contains(out[key], value) {
				out[key] = append(out[key], value)
			}
		}
	}
	return out
}
