// Attacks of attacks.h on the file systems of a cage. They return 0 if they worked, else an errno.
#pragma once
#include <string>

// "put PATH TEXT": writes a text to a file that exists.
int put_text(const std::string& text);
// "make_folder PATH"
int make_folder(const std::string& path);
// "hide PATH": makes a folder with a file of one MiB that the owner may enter, but not list.
int hide_file(const std::string& path);
// "write_below PATH NAMES": opens a file below a folder for writing whose path does not end with
// one of the names, which commas separate.
int write_below(const std::string& text);
