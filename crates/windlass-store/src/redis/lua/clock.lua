-- What time it is here, in milliseconds, and the largest number that this part has given out.
--
-- No arguments of its own. Who reserves a name elsewhere for something that it will write here says by this clock until when
-- it may be written (`is_late`).

return { text(time_here()), call("HGET", KEYS[1], "number") or "0" }
