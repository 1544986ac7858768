import { configure } from "@testing-library/react";

// A test waits for an event; a loaded machine needs longer than the second that is the default.
configure({ asyncUtilTimeout: 60_000 });
