// Package blocks reads and writes files in which damage can be located. Such a file consists of
// blocks, followed by a table of their checksums.
//
// The table contains the end of each block (8 bytes) and its CRC-32C (4 bytes), then the number of
// blocks and the CRC-32C of the table up to there, 4 bytes each, all big-endian. A reader finds
// the table from the end of the file, without reading the blocks. The table is the content of a
// msgpack bin; the head of that bin is the end of the last block.
package blocks
