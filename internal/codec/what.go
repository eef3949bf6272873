package codec

// What tells people what a value is, such as "a text".
func What(data []byte) string {
	t, _, err := next(data)
	switch {
	case err != nil:
		return "unreadable"
	case t.kind == kindExt:
		if _, ok := timestamp(t); ok {
			return "a time"
		}
	}
	return [...]string{
		kindNil: "null", kindBool: "true or false", kindInt: "a whole number", kindUint: "a whole number",
		kindFloat: "a number", kindString: "a text", kindBytes: "bytes", kindArray: "a list", kindMap: "an object",
		kindExt: "a value of its own kind",
	}[t.kind]
}
