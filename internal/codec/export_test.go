package codec

// IsOpen is isUnbounded.
var IsOpen = isUnbounded
