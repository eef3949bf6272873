// Package enum defines the encoded form of enumerations.
package enum
