// Package blocks is the form of a file that says where it is damaged: blocks,
// and after them a table of their checksums.
//
// The table has the end of each block (8 bytes) and its CRC-32C (4 bytes), then
// the number of blocks and the CRC-32C of the table up to there, 4 bytes each,
// all big-endian: it is found from the end of the file, without reading what it
// is about to check. It is a msgpack bin, whose head is the end of the last
// block.
package blocks
