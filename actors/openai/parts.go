package openai

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/reprise-go/reprise/actors"
)

// checkPart validates a part and returns its MIME type.
func checkPart(p actors.Part) (mime string, err error) {
	set := 0
	for _, there := range [...]bool{p.Text != "", len(p.Data) > 0, p.URL != ""} {
		if there {
			set++
		}
	}
	switch {
	case set == 0:
		return "", errors.New("empty part; set Text, Data or URL")
	case set > 1:
		return "", errors.New("more than one of Text, Data and URL is set")
	case p.Text != "":
		return "", nil
	case p.URL != "":
		return p.MIME, checkURL(p.URL)
	}
	detected, _, _ := strings.Cut(http.DetectContentType(p.Data), ";")
	if p.MIME == "" {
		return detected, nil
	}
	if strings.HasPrefix(p.MIME, "image/") {
		switch detected {
		case "image/png", "image/jpeg", "image/gif", "image/webp":
			return detected, nil
		}
		return "", fmt.Errorf("declared as %s, but the data is %s; services take PNG, JPEG, GIF and WebP", p.MIME, detected)
	}
	if p.MIME == "application/pdf" && detected != "application/pdf" {
		return "", fmt.Errorf("declared as %s, but the data is %s", p.MIME, detected)
	}
	return p.MIME, nil
}

func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return fmt.Errorf("invalid URL: %w", err)
	}
	switch u.Scheme {
	case "https", "http", "data":
		return nil
	}
	return fmt.Errorf("the URL has scheme %q; want http, https or data", u.Scheme)
}

// dataURL returns data as a data URL.
func dataURL(mime string, data []byte) string {
	return "data:" + mime + ";base64," + base64.StdEncoding.EncodeToString(data)
}

func source(p actors.Part, mime string) string {
	if p.URL != "" {
		return p.URL
	}
	return dataURL(mime, p.Data)
}

func textPart(text string) map[string]any { return map[string]any{"type": "text", "text": text} }

// convertParts checks the parts, converts each of them to the form that an API uses, and adds its
// extra fields for the host.
func convertParts(parts []actors.Part, host string, convert func(p actors.Part, mime string) (map[string]any, error)) ([]any, error) {
	var out []any
	for i, p := range parts {
		mime, err := checkPart(p)
		var part map[string]any
		if err == nil {
			part, err = convert(p, mime)
		}
		if err != nil {
			return nil, fmt.Errorf("part %d: %w", i+1, err)
		}
		maps.Copy(part, extraFor(p.Extra, host))
		out = append(out, part)
	}
	return out, nil
}

// assistantParts returns the text parts and the pictures among an assistant's parts. Audio is
// omitted: services accept their own audio only by its ID.
func assistantParts(parts []actors.Part) (texts, pictures []actors.Part) {
	for _, p := range parts {
		switch {
		case p.Text != "":
			texts = append(texts, p)
		case strings.HasPrefix(p.MIME, "image/"):
			pictures = append(pictures, p)
		}
	}
	return texts, pictures
}

// chatPart converts a part for the chat completions API.
func chatPart(p actors.Part, mime string) (map[string]any, error) {
	kind, _, _ := strings.Cut(mime, "/")
	switch {
	case p.Text != "":
		return textPart(p.Text), nil
	case kind == "image":
		return map[string]any{"type": "image_url", "image_url": map[string]any{"url": source(p, mime)}}, nil
	case kind == "video":
		return map[string]any{"type": "video_url", "video_url": map[string]any{"url": source(p, mime)}}, nil
	case kind == "audio" && p.URL == "":
		format, err := audioFormat(mime)
		return map[string]any{"type": "input_audio", "input_audio": map[string]any{
			"data": base64.StdEncoding.EncodeToString(p.Data), "format": format,
		}}, err
	case p.URL != "":
		return nil, fmt.Errorf("a URL of type %q cannot be sent on the chat completions API, which accepts only URLs of images and videos: set MIME, or use Data", p.MIME)
	}
	return map[string]any{"type": "file", "file": map[string]any{"filename": fileName(p), "file_data": dataURL(mime, p.Data)}}, nil
}

func audioFormat(mime string) (string, error) {
	switch mime {
	case "audio/wav", "audio/wave", "audio/x-wav", "audio/vnd.wave":
		return "wav", nil
	case "audio/mpeg", "audio/mp3":
		return "mp3", nil
	}
	return "", fmt.Errorf("audio of type %q cannot be sent; want audio/wav or audio/mpeg", mime)
}

func fileName(p actors.Part) string {
	if p.Name == "" {
		return "file"
	}
	return p.Name
}

// responsesPart converts a part for the Responses API.
func responsesPart(p actors.Part, mime string) (map[string]any, error) {
	kind, _, _ := strings.Cut(mime, "/")
	switch {
	case p.Text != "":
		return map[string]any{"type": "input_text", "text": p.Text}, nil
	case kind == "image":
		return map[string]any{"type": "input_image", "image_url": source(p, mime)}, nil
	case kind == "audio" || kind == "video":
		return nil, fmt.Errorf("%s cannot be sent on the Responses API; the chat completions API accepts it: set Model.API to openai.Chat", mime)
	case p.URL != "":
		return map[string]any{"type": "input_file", "file_url": p.URL}, nil
	}
	return map[string]any{"type": "input_file", "filename": fileName(p), "file_data": dataURL(mime, p.Data)}, nil
}
