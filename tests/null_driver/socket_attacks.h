// Attacks of attacks.h by sockets that a session binds. They return 0 if they worked, else an
// errno.
#pragma once
#include <string>

// "bind PATH": listens at a path; "@" at its begin stands for an abstract name.
int listen_at(const std::string& path);
// "flood PATH COUNT": makes the files of sockets PATH.0, PATH.1, ... which stay.
int flood_with_sockets(const std::string& text);
// "take PATH OTHER": gives the file of a socket the name of another one.
int take_name(const std::string& text);
// "send PATH": sends a datagram without connect().
int send_to(const std::string& path);
// "occupy PORT": ends the client's TCP connection, which belongs to the network of the machine,
// binds it to a port of the machine, and keeps it for a while.
int occupy_port(const std::string& port);
