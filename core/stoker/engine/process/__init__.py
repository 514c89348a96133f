"""Workers that are processes of their own: for Python code that holds the GIL.

A segment stays what it is. Each of its workers is a thread that hands its jobs to a
child and waits for the answer (`proxy`), so that order, bounds and accounts are the
same as for threads. The child runs the same runners (`child`), arrays cross in shared
memory (`shared`), and whatever befalls the child comes back as a failing sample.
"""
