// Package enum holds how enumerations are written on the wire.
package enum
