// Package blocks reads and writes files in which damage can be located. Such a file consists of
// blocks, followed by a table of their checksums.
//
// For each block, the table contains the offset of its end (8 bytes) and its CRC-32C (4 bytes). The
// number of blocks (4 bytes) and the CRC-32C of the table up to this point (4 bytes) follow. All
// numbers are big-endian. A reader locates the table from the end of the file, without reading the
// blocks. The table is the content of a msgpack bin, whose head is at the end of the last block.
package blocks
