package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode/utf8"
)

// Parse reads a report of the tree with the given id. It is strict: one JSON
// object in any layout, every key once and in its one spelling, no other key,
// nothing behind it.
func Parse(data []byte, tree string) (Report, error) {
	r, err := parse(data)
	if err != nil {
		return Report{}, fmt.Errorf("read report: %w", err)
	}
	if r.Tree != tree {
		return Report{}, fmt.Errorf("read report: it is for tree %s, and it is named %q", r.Tree, clip(tree))
	}
	return r, nil
}

func parse(data []byte) (Report, error) {
	if len(data) > MaxBytes {
		return Report{}, fmt.Errorf("%d bytes, and a report has at most %d", len(data), MaxBytes)
	}
	if !utf8.Valid(data) {
		return Report{}, errors.New("not UTF-8")
	}
	d := &decoder{json.NewDecoder(bytes.NewReader(data)), data}
	d.UseNumber()
	var r Report
	if err := d.report(&r); err != nil {
		return Report{}, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Report{}, errors.New("something follows the JSON object")
	}
	return r, r.check()
}

// decoder walks over tokens: encoding/json's own decoding takes the last of two
// equal keys and folds their case.
type decoder struct {
	*json.Decoder
	data []byte
}

func (d *decoder) report(r *Report) error {
	schema := ""
	err := d.object(map[string]func() error{
		"schema": func() error {
			var err error
			if schema, err = d.text(); err == nil && schema != Schema {
				err = fmt.Errorf("schema is %q, and this version reads %q", clip(schema), Schema)
			}
			return err
		},
		"tree":     func() (err error) { r.Tree, err = d.text(); return err },
		"outcomes": func() error { return d.outcomes(r) },
		"harness":  func() error { return d.harness(r) },
		"tool":     func() (err error) { r.Tool, err = d.text(); return err },
		"made": func() error {
			text, err := d.text()
			if err != nil {
				return err
			}
			if r.Made, err = time.Parse(madeLayout, text); err != nil || r.Made.Format(madeLayout) != text {
				return fmt.Errorf("made %q: want a time like %s", clip(text), "2006-01-02T15:04:05Z")
			}
			return nil
		},
	})
	return err
}

// object reads an object that has each of the keys once.
func (d *decoder) object(keys map[string]func() error) error {
	seen := map[string]bool{}
	err := d.each(func(key string) error {
		read, known := keys[key]
		if !known {
			return fmt.Errorf("key %q is unknown", clip(key))
		}
		seen[key] = true
		return read()
	})
	if err != nil {
		return err
	}
	for key := range keys {
		if !seen[key] {
			return fmt.Errorf("key %q is missing", key)
		}
	}
	return nil
}

// each calls value for every key of an object, and refuses one that stands twice.
func (d *decoder) each(value func(key string) error) error {
	if err := d.delim('{'); err != nil {
		return err
	}
	seen := map[string]bool{}
	for d.More() {
		key, err := d.text()
		if err != nil {
			return err
		}
		if seen[key] {
			return fmt.Errorf("key %q stands twice", clip(key))
		}
		seen[key] = true
		if err := value(key); err != nil {
			return err
		}
	}
	return d.delim('}')
}

func (d *decoder) outcomes(r *Report) error {
	r.Outcomes = map[string]Outcome{}
	return d.each(func(id string) error {
		text, err := d.text()
		r.Outcomes[id] = Outcome(text)
		return err
	})
}

func (d *decoder) harness(r *Report) error {
	if d.null() {
		_, err := d.Token()
		return err
	}
	r.Harness = &Harness{}
	return d.object(map[string]func() error{
		"command": func() (err error) { r.Harness.Command, err = d.texts(); return err },
		"exit":    func() (err error) { r.Harness.Exit, err = d.number(); return err },
	})
}

// null looks ahead: the next value begins with the letter that only null has.
func (d *decoder) null() bool {
	rest := bytes.TrimLeft(d.data[d.InputOffset():], " \t\r\n:")
	return len(rest) > 0 && rest[0] == 'n'
}

func (d *decoder) texts() ([]string, error) {
	if err := d.delim('['); err != nil {
		return nil, err
	}
	var list []string
	for d.More() {
		text, err := d.text()
		if err != nil {
			return nil, err
		}
		if list = append(list, text); len(list) > maxCommand {
			return nil, fmt.Errorf("a list of more than %d", maxCommand)
		}
	}
	return list, d.delim(']')
}

func (d *decoder) text() (string, error) {
	token, err := d.Token()
	if err != nil {
		return "", fmt.Errorf("not JSON: %w", err)
	}
	text, ok := token.(string)
	if !ok {
		return "", fmt.Errorf("%q where a string belongs", fmt.Sprint(token))
	}
	return text, nil
}

func (d *decoder) number() (int, error) {
	token, err := d.Token()
	if err != nil {
		return 0, fmt.Errorf("not JSON: %w", err)
	}
	number, ok := token.(json.Number)
	if !ok {
		return 0, fmt.Errorf("%q where a number belongs", clip(fmt.Sprint(token)))
	}
	n, err := strconv.Atoi(number.String())
	if err != nil || strconv.Itoa(n) != number.String() {
		return 0, fmt.Errorf("%q is no whole number in its one spelling", clip(number.String()))
	}
	return n, nil
}

func (d *decoder) delim(want json.Delim) error {
	token, err := d.Token()
	if err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	if token != want {
		return fmt.Errorf("%q where %q belongs", clip(fmt.Sprint(token)), want.String())
	}
	return nil
}
