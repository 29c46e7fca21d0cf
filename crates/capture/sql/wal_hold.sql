-- Nobody becomes leader while this transaction runs, and whoever is not leader any more finds nothing.
SELECT FROM tidewire.capture WHERE generation = $1 FOR SHARE
