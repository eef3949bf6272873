// Package tests holds black-box tests across the packages of Reprise: what a
// user of several of them would see.
package tests
