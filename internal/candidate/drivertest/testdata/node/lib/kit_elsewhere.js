exports.here = () => 'elsewhere';
