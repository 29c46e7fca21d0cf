SELECT EXISTS (SELECT FROM tidewire.log WHERE c_offset > $2 AND control = 'mark' AND txid = $1)
