package codec

// IsOpen is isOpen.
var IsOpen = isOpen
