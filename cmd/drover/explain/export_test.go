package explain

// About is what advice names of a snapshot's machine.
var About = about
