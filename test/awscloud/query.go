package awscloud

import (
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// queryTime is the timestamp format of the query protocol.
const queryTime = "2006-01-02T15:04:05.000Z"

// decodeQuery decodes the parameters of an AWS query request into in, a pointer to one of the SDK's Input structs. Parameters
// have the names of Go fields, and list elements are Name.member.1, Name.member.2 and so on. decodeQuery fails if a parameter
// has an invalid value or no field, so no parameter is ignored.
func decodeQuery(form url.Values, in any) error {
	d := &queryDecoder{form: form, present: map[string]bool{}, used: map[string]bool{"Action": true, "Version": true}}
	for key := range form {
		for i, c := range key {
			if c == '.' {
				d.present[key[:i]] = true
			}
		}
		d.present[key] = true
	}
	if err := d.decodeFields("", reflect.ValueOf(in).Elem()); err != nil {
		return err
	}
	for _, key := range sortedKeys(form) {
		if !d.used[key] {
			return fmt.Errorf("parameter %q is unknown", key)
		}
	}
	return nil
}

type queryDecoder struct {
	form    url.Values
	present map[string]bool // every parameter and every dotted prefix of a parameter
	used    map[string]bool // parameters that were read into a field
}

func (d *queryDecoder) decodeFields(prefix string, v reflect.Value) error {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if path := prefix + memberName(f); f.IsExported() && d.present[path] {
			if err := d.decodeValue(path, v.Field(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *queryDecoder) decodeValue(path string, v reflect.Value) error {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return d.decodeValue(path, v.Elem())
	case reflect.Slice:
		return d.decodeList(path, v)
	case reflect.Struct:
		if v.Type() != reflect.TypeFor[time.Time]() {
			return d.decodeFields(path+".", v)
		}
	}
	text := d.form.Get(path)
	d.used[path] = true
	if err := setScalar(v, text); err != nil {
		return fmt.Errorf("parameter %q: value %q: %w", path, text, err)
	}
	return nil
}

// decodeList decodes path.member.1, path.member.2 and so on into v. Clients send an empty list as "path=".
func (d *queryDecoder) decodeList(path string, v reflect.Value) error {
	v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	for i := 1; ; i++ {
		item := path + "." + elementName(v.Type().Elem()) + "." + strconv.Itoa(i)
		if !d.present[item] {
			d.used[path] = i == 1 && d.form.Get(path) == ""
			return nil
		}
		e := reflect.New(v.Type().Elem()).Elem()
		if err := d.decodeValue(item, e); err != nil {
			return err
		}
		v.Set(reflect.Append(v, e))
	}
}

// One list, of PerformanceFactorReferenceRequest, has other names on the wire than all other lists, because it comes from EC2's
// model. Its name is singular, and its elements are called "item".

func elementName(element reflect.Type) string {
	if element == reflect.TypeFor[at.PerformanceFactorReferenceRequest]() {
		return "item"
	}
	return "member"
}

func memberName(f reflect.StructField) string {
	if f.Type == reflect.TypeFor[[]at.PerformanceFactorReferenceRequest]() {
		return "Reference"
	}
	return f.Name
}

// setScalar parses text into v.
func setScalar(v reflect.Value, text string) error {
	switch v.Kind() {
	case reflect.String:
		if text == "" && v.Type() != reflect.TypeFor[string]() {
			return fmt.Errorf("must be one of the values of %s", v.Type().Name())
		}
		v.SetString(text)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return errors.New("must be true or false")
		}
		v.SetBool(text == "true")
	case reflect.Int32, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, v.Type().Bits())
		v.SetInt(n)
		return err
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		v.SetFloat(f)
		return cmp.Or(err, checkFinite(f))
	case reflect.Struct: // a time.Time; decodeValue handles all other structures
		t, err := time.Parse(time.RFC3339, text)
		v.Set(reflect.ValueOf(t))
		return err
	default:
		return fmt.Errorf("is of a kind the stand-in cannot read, %s", v.Type())
	}
	return nil
}

func checkFinite(f float64) error {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return strconv.ErrRange
	}
	return nil
}

// encodeQuery encodes out, a pointer to one of the SDK's Output structs, as the answer to op in the query protocol. It omits a
// nil pointer or slice. It writes an empty slice as an empty element.
func encodeQuery(op, namespace, requestID string, out any) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `<%[1]sResponse xmlns=%[2]q><%[1]sResult>`, op, namespace)
	encodeFields(&b, reflect.ValueOf(out).Elem())
	fmt.Fprintf(&b, `</%[1]sResult><ResponseMetadata><RequestId>%[2]s</RequestId></ResponseMetadata></%[1]sResponse>`, op, requestID)
	return []byte(b.String())
}

func encodeFields(b *strings.Builder, v reflect.Value) {
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && f.Name != "ResultMetadata" {
			encodeValue(b, memberName(f), v.Field(i))
		}
	}
}

func encodeValue(b *strings.Builder, name string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			encodeValue(b, name, v.Elem())
		}
		return
	case reflect.Slice, reflect.Map:
		if v.IsNil() {
			return
		}
	case reflect.String:
		// Omit an empty enum. An unset string is a nil pointer, so an empty string is a value.
		if v.Len() == 0 && v.Type() != reflect.TypeFor[string]() {
			return
		}
	}
	b.WriteString("<" + name + ">")
	encodeContent(b, v)
	b.WriteString("</" + name + ">")
}

func encodeContent(b *strings.Builder, v reflect.Value) {
	if t, ok := v.Interface().(time.Time); ok {
		b.WriteString(t.UTC().Format(queryTime))
		return
	}
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			encodeValue(b, elementName(v.Type().Elem()), v.Index(i))
		}
	case reflect.Struct:
		encodeFields(b, v)
	default:
		_ = xml.EscapeText(b, []byte(fmt.Sprint(v.Interface()))) // a strings.Builder never returns an error
	}
}

// queryFault encodes an error in the query protocol. The type of a server error is Receiver.
func queryFault(e *apiError, namespace, requestID string) []byte {
	origin := "Sender"
	if e.Status >= 500 {
		origin = "Receiver"
	}
	return []byte(fmt.Sprintf(`<ErrorResponse xmlns=%q><Error><Type>%s</Type><Code>%s</Code><Message>%s</Message></Error><RequestId>%s</RequestId></ErrorResponse>`,
		namespace, origin, escapeXML(e.Code), escapeXML(e.Message), requestID))
}

func escapeXML(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a strings.Builder never returns an error
	return b.String()
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
