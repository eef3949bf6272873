package codec

// Describe returns a description of a value, such as "a string".
func Describe(data []byte) string {
	h, _, err := next(data)
	if err != nil {
		return "unreadable"
	}
	return h.describe()
}

func (h head) describe() string {
	if _, ok := h.time(); ok {
		return "a time"
	}
	if h.isJSON() {
		return "JSON"
	}
	return [...]string{
		kindNil: "null", kindBool: "a boolean", kindInt: "an integer", kindUint: "an integer",
		kindFloat: "a number", kindString: "a string", kindBytes: "bytes", kindArray: "an array", kindMap: "an object",
		kindExt: "an extension",
	}[h.kind]
}
