// Package enum defines how enumerations are written in encoded form.
package enum
