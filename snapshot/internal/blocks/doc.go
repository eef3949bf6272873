// Package blocks reads and writes files that show where they are damaged: blocks, followed
// by a table of their checksums.
//
// The table has the end of each block (8 bytes) and its CRC-32C (4 bytes), then the number
// of blocks and the CRC-32C of the table up to there, 4 bytes each, all big-endian. A
// reader finds it from the end of the file, without reading the blocks. It is the content
// of a msgpack bin, whose head ends the last block.
package blocks
