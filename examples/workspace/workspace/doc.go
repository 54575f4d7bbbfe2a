// Package workspace is an MCP server over one folder of files: read_file,
// list_files, write_file and delete_file. It shows what a tool server looks
// like to Countersign: two tools that only read, one that may be repeated
// (writing the same content again changes nothing), and one that may not.
//
// It promises that no path leads out of the folder, neither by "..", nor by
// an absolute path, nor by a symbolic link: all access goes through os.Root.
package workspace
