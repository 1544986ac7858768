// Executes a call of an exported function.
//
// Thread safety: for one thread.
#pragma once
#include "arguments.h"

// The function in its library. Exits if the library does not export it.
void* symbol_of(const Function& f);
bool starts(const char* name, const char* with);
// Undo what a call changed of the thread and of the capture of its stream.
void restore(const Function& f, const Arguments& a, Objects& objects);
// Return the result of a call and its work.
int execute(const Function& f, void* symbol, const Arguments& a, Objects& objects);
